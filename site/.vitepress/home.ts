// What the first page of the site shows above the index.

export const home = {
  layout: 'home',
  hero: {
    name: 'Galatea',
    text: 'One server for all your models',
    tagline:
      'A drop-in for NVIDIA Triton in TypeScript. It installs with npm, and releases, guards and watches models by itself.',
    image: { src: '/galatea.svg', alt: '' },
    actions: [
      { theme: 'brand', text: 'Quickstart', link: '/guide/quickstart' },
      { theme: 'alt', text: 'Moving from Triton', link: '/guide/moving-from-triton' },
    ],
  },
  features: [
    {
      title: 'Triton’s clients do not notice',
      details:
        'The same protocols, repositories, flags, metrics and texts, compared with recorded answers of the real server.',
      link: '/guide/moving-from-triton',
    },
    {
      title: 'A new version goes back by itself',
      details:
        '1 % of the users, then 5, 25, 50, 100. A version that fails, slows down or answers differently is withdrawn within seconds.',
      link: '/guide/release-a-version',
    },
    {
      title: 'Useful answers at ten times the load',
      details: 'Keys, quotas and fair shares. What cannot be answered in time is refused early, without a setting.',
      link: '/guide/overload',
    },
    {
      title: 'A console inside',
      details: 'Models, a playground, requests as they arrive, logs, traces, and a button that rolls back.',
      link: '/guide/console',
    },
    {
      title: 'Every client you already have',
      details: 'TensorFlow Serving, TorchServe, KServe, SageMaker, Vertex AI and OpenAI’s API on the same models.',
      link: '/guide/clients',
    },
    {
      title: 'Language models, too',
      details: 'GGUF files with continuous batching, vLLM, and other servers behind the same limits and rollouts.',
      link: '/guide/which-engine',
    },
  ],
}
