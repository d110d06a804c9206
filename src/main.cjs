#!/usr/bin/env node
'use strict'
// The executable once it is built: the other files are next to it then.
const { problem } = require('./node-version.cjs')

if (problem) {
  console.error(problem)
  process.exit(1)
}
require('./cli.cjs').run()
