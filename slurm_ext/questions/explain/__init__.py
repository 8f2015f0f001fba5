"""The document of `explain`, part by part; a part has its words beside its figures."""
