"""Earlier jobs from a site's accounting (sacct, jobstats). No record of a node passes here."""
