import { randomInt } from 'node:crypto'
import { test } from 'node:test'
import { crash } from '../crash.ts'
import { Random } from '../support.ts'

const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31))
const ROUNDS = Number(process.env['ROUNDS'] ?? 30)

test(`what was acknowledged survives kill -9, ${ROUNDS} times (SEED=${SEED})`, async (t) => {
  await crash(t, [process.execPath, 'dist/main.js'], ROUNDS, new Random(SEED))
})
