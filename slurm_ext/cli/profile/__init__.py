"""`dlqueue profile`: where a step goes, by one short run in windows that saves nothing."""
