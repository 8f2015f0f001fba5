"""`dlqueue install` and `dlqueue uninstall`."""
