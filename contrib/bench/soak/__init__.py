"""Does anything grow without levelling off while records come for hours?"""
