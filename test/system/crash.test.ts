import { testCrashes } from '../crash.ts'

testCrashes([process.execPath, 'dist/main.js'], Number(process.env['ROUNDS'] ?? 30))
