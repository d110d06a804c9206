#!/usr/bin/env node
import { run } from './cli/cli.ts'

run() // the build has a main.js that does the same
