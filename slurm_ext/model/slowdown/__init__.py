"""How much two co-located jobs slow each other down. numpy only."""
