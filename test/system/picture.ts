// Draws docs/page.png, the page of a server with the demo pets. Run by `npm run picture`.
import { DEMO_PETS } from '../demo.ts'
import { exec } from '../documents.ts'
import { words } from '../support.ts'
import { startPetstore } from '../../src/petstore/launch.ts'

const petstore = await startPetstore({ port: 8080, pets: DEMO_PETS })
const flags = words(`--headless --no-sandbox --hide-scrollbars --virtual-time-budget=10000
  --window-size=1280,820`)
const address = new URL(`/#key=${petstore.apiKey}`, petstore.url).href
await exec('chromium', [...flags, '--screenshot=docs/page.png', address])
await petstore.close()
