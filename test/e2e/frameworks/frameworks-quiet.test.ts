// Nothing that a framework does in a worker leaves the machine, nor does the description of its files.

import path from 'node:path'
import test from 'node:test'
import { requireTool } from '../../tool.ts'
import { projectRoot, startServerProcess } from '../server-process.ts'
import { Watch } from '../watched-process.ts'
import { FrameworkRepository } from './framework-repository.ts'

const frameworks = [
  { tool: 'python-sklearn', script: 'make_tabular.py', backends: ['sklearn', 'xgboost', 'lightgbm'] },
  { tool: 'python-pytorch', script: 'make_pytorch.py', backends: ['pytorch'] },
  { tool: 'python-tensorflow', script: 'make_tensorflow.py', backends: ['tensorflow'] },
  { tool: 'python-openvino', script: 'make_openvino.py', backends: ['openvino'] },
] as const

for (const { tool, script, backends } of frameworks) {
  test(`models of ${backends.join(', ')} are quiet from start to exit`, async () => {
    const python = await requireTool(tool)
    await using repository = await FrameworkRepository.make(python, script)
    await using watch = await Watch.start({ PYTHONDONTWRITEBYTECODE: '1' })
    await using server = await startServerProcess(
      [
        `--model-repository=${repository.path}`,
        '--allow-pickle-models',
        '--exit-on-error=false',
        ...backends.map((name) => `--backend-config=${name},interpreter=${python}`),
      ],
      { prefix: watch.prefix },
    )
    await repository.check(server)
    await fetch(`${server.url}/v2/models/${[...repository.expected.keys()][0]}/infer`, { method: 'POST', body: '{}' })
    await server.stop()
    // PyTorch's folder for what it compiles; `TORCHINDUCTOR_CACHE_DIR` moves it.
    await watch.assertQuiet(['temporary/torchinductor_'])
  })
}

test('galatea inspect of a file that Python reads is quiet', async () => {
  const python = await requireTool('python-sklearn')
  await using repository = await FrameworkRepository.make(python, 'make_tabular.py')
  await using watch = await Watch.start({ PYTHONDONTWRITEBYTECODE: '1' })
  const file = path.join(repository.path, 'flowers/1/model.skops')
  await watch.run([path.join(projectRoot, 'bin/galatea.js'), 'inspect', file, '--python', python])
  await watch.assertQuiet()
})
