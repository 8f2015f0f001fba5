#!/bin/bash -eu
echo ran
