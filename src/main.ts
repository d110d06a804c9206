#!/usr/bin/env node
import { run } from './cli.ts'

run() // the build has a main.js with the same line
