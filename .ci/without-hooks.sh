#!/usr/bin/env bash
# Artefacts have no hooks for tests (the feature __internals).
if grep -l 'nutfilter test hooks' "$@"; then exit 1; else [ $? = 1 ]; fi
