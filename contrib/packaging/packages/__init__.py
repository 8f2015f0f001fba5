"""Builds dlqueue's three packages as deb and rpm from the tree, with dpkg-deb and rpmbuild.

    make deb        # build/packages/*.deb; OPTIONS="--only node" builds one
    make rpm        # build/packages/*.rpm
    make wheelhouse # build/wheelhouse: all that pip needs on a machine without network

`contents.py` says what is in which package, `stage.py` lays the files out as they will lie on a
machine, `deb.py` and `rpm.py` wrap them up. `scripts/` has what runs when a package comes or goes.
"""
