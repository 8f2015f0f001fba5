"""Can one user blind, steer, impersonate, starve or outrank another, or the cluster?"""
