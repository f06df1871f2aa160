import { prepareTool, type ToolName } from '../scripts/test-tools.ts'

/** The path of a program of another project; installed first where it can be. Throws with what would help. */
export async function requireTool(name: ToolName): Promise<string> {
  const prepared = await prepareTool(name)
  if ('missingBecause' in prepared) throw new Error(prepared.missingBecause)
  return prepared.program
}
