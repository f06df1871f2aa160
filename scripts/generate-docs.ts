// Writes the documents that are made from tables in the source: docs/reference/flags.md, metrics.md.
// `node scripts/generate-docs.ts`; test/docs.test.ts notices when somebody forgot.

import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { flagsDocument } from './flags-document.ts'
import { metricsDocument } from './metrics-document.ts'

writeFileSync(path.join(import.meta.dirname, '..', 'docs', 'reference', 'flags.md'), flagsDocument())
writeFileSync(path.join(import.meta.dirname, '..', 'docs', 'reference', 'metrics.md'), metricsDocument())
