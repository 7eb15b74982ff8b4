#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the path of a Chromium that tests can run.
command -v chromium || command -v chromium-browser || command -v google-chrome
