#!/usr/bin/env node
import { main } from './cli.ts'

process.exit(await main(process.argv.slice(2), process.env, process))
