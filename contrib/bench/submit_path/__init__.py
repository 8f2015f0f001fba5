"""How much time does dlqueue add to a submission?"""
