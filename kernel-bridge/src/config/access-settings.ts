/** Where the gateway listens, who may use it, and its folders. */
import { KERNEL_MANAGERS, named, type SettingTable } from './setting.js';
import * as kinds from './setting-kinds.js';

export const ACCESS_SETTINGS = {
  host: {
    ...named(['ServerApp'], 'ip'),
    flag: '--host <address>',
    variable: 'TPULAB_HOST',
    kind: kinds.text('an address, or a name of this machine'),
    fallback: '127.0.0.1',
    help: 'address to listen on'
  },
  port: {
    ...named(['ServerApp'], 'port'),
    flag: '--port <number>',
    variable: 'TPULAB_PORT',
    kind: kinds.number({ what: 'a port', min: 0, max: 65_535, whole: true }),
    fallback: 0,
    help: 'port, 0 for a free one'
  },
  unixSocket: {
    ...named(['ServerApp'], 'sock'),
    flag: '--unix-socket [path]',
    variable: 'TPULAB_UNIX_SOCKET',
    kind: kinds.socket,
    fallback: null,
    fallbackWords: 'none; the server listens on a port',
    help: 'listen on a Unix socket instead of a port (for use over SSH); default path: run/gateway.sock in the state folder'
  },
  baseUrl: {
    ...named(['ServerApp'], 'base_url'),
    flag: '--base-url <path>',
    variable: 'TPULAB_BASE_URL',
    kind: kinds.text('a path like /bridge/'),
    fallback: '/',
    help: 'prefix of all paths, for a proxy that passes them on unchanged'
  },
  token: {
    ...named(['IdentityProvider', 'ServerApp'], 'token'),
    flag: '--token <token>',
    variable: 'TPULAB_TOKEN',
    kind: kinds.text('a text'),
    fallback: null,
    fallbackWords: 'the token in the state folder, else a random one',
    help: 'token of the server, at least 16 characters; a variable or a file is safer than a flag',
    isSecret: true
  },
  tokenFile: {
    ...named(['Bridge'], 'token_file'),
    flag: '--token-file <file>',
    variable: 'TPULAB_TOKEN_FILE',
    kind: kinds.text('the path of a file'),
    fallback: null,
    fallbackWords: 'none',
    help: 'file with the token; only you may have read access'
  },
  allowedOrigins: {
    ...named(['ServerApp'], 'allow_origin'),
    flag: '--allow-origin <origin>',
    variable: 'TPULAB_ALLOW_ORIGIN',
    kind: kinds.origins,
    fallback: [],
    help: 'origin of pages that may use the server; repeatable'
  },
  allowCredentials: {
    ...named(['ServerApp'], 'allow_credentials'),
    flag: '--allow-credentials',
    variable: 'TPULAB_ALLOW_CREDENTIALS',
    kind: kinds.truth,
    fallback: false,
    help: "let pages of allowed origins use the browser's credentials mode and ?token= for REST (Colab); cookies are ignored"
  },
  allowedHosts: {
    ...named(['ServerApp'], 'local_hostnames'),
    flag: '--allow-host <name>',
    variable: 'TPULAB_ALLOW_HOST',
    kind: kinds.list('a host name', item => (/^[^\s/@?#]+$/.test(item) ? item : kinds.INVALID)),
    fallback: [],
    help: 'additional name accepted in the Host header; repeatable'
  },
  rootDir: {
    ...named(['ServerApp', ...KERNEL_MANAGERS], 'root_dir'),
    flag: '--root-dir <folder>',
    variable: 'TPULAB_ROOT_DIR',
    kind: kinds.text('a folder'),
    fallback: null,
    fallbackWords: 'the current folder',
    help: "folder that clients' paths are relative to"
  },
  stateDir: {
    ...named(['Bridge'], 'state_dir'),
    flag: '--state-dir <folder>',
    variable: 'TPULAB_STATE_DIR',
    kind: kinds.text('a folder'),
    fallback: null,
    fallbackWords: 'tpulab in $XDG_STATE_HOME, else in ~/.local/state',
    help: 'folder for state: kernels, journals, token, log'
  },
  envDir: {
    ...named(['Bridge'], 'env_dir'),
    flag: '--env-dir <folder>',
    variable: 'TPULAB_ENV_DIR',
    kind: kinds.text('a folder'),
    fallback: null,
    fallbackWords: '.tpulab/envs in a checkout, else tpulab/envs in $XDG_DATA_HOME, else in ~/.local/share',
    help: 'folder for kernel environments'
  },
  logLevel: {
    ...named(['Application', 'ServerApp', 'JupyterApp'], 'log_level'),
    flag: '--log-level <level>',
    variable: 'TPULAB_LOG_LEVEL',
    kind: kinds.logLevel,
    fallback: 'info',
    help: 'level of gateway.log'
  }
} satisfies Partial<SettingTable>;
