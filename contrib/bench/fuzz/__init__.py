"""Does any hostile input end in a traceback, stop a pipeline or change a stranger's decision?"""
