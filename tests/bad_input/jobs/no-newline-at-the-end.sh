#!/bin/bash
echo ran