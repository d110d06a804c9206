#!/usr/bin/env node
import { main } from './cli.ts'

// No top-level await: it is built as a CommonJS script, which starts faster than an ES module.
void main(process.argv.slice(2), process.env, process).then((status) => process.exit(status))
