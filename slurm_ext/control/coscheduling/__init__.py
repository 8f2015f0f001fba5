"""Loop that starts waiting CPU jobs beside jobs that they do not slow down."""
