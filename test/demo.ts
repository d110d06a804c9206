import { readFileSync } from 'node:fs'
import type { NewPet } from '../src/types.ts'

const DEMO = new URL('../src/cli/demo.json', import.meta.url)

export const DEMO_PETS: readonly NewPet[] = JSON.parse(readFileSync(DEMO, 'utf8'))
