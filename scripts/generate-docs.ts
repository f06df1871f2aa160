// Writes the documents that are made from tables in the source: docs/reference/flags.md.
// `node scripts/generate-docs.ts`; test/docs.test.ts notices when somebody forgot.

import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { flagsDocument } from './flags-document.ts'

writeFileSync(path.join(import.meta.dirname, '..', 'docs', 'reference', 'flags.md'), flagsDocument())
