#!/bin/sh
set -eu
# TODO wait for the database instead of sleeping
sleep 5
exec python -m shelf.app
