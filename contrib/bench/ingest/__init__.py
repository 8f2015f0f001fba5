"""How fast are records ingested, and how fast does `dlqueue predict` answer?"""
