"""The loop that starts waiting CPU jobs beside good companions."""
