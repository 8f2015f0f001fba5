#!/bin/bash
setsid sleep 300 &
echo ran
