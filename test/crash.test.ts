import { randomInt } from 'node:crypto'
import { test } from 'node:test'
import { crash } from './crash.ts'
import { Random } from './support.ts'

const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31))

test(`what was acknowledged survives kill -9 (SEED=${SEED})`, async (t) => {
  await crash(t, [process.execPath, '--import', 'tsx', 'src/main.ts'], 4, new Random(SEED))
})
