installed() { compile $opt/bin/python3; }

leaving() { clean; }
