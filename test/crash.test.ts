import { testCrashes } from './crash.ts'

testCrashes([process.execPath, '--import', 'tsx', 'src/main.ts'], 4)
