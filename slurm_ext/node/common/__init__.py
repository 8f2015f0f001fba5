"""What every hook uses: files, log, configuration, spool layout, and the state of one job."""
