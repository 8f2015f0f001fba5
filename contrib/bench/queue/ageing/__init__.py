"""Which ageing should the queue use?"""
