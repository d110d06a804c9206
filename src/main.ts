#!/usr/bin/env node
import { run } from './cli/cli.ts'

run() // once it is built, main.cjs does the same
