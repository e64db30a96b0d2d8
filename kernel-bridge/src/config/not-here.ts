/**
 * Settings that Jupyter has and the bridge on purpose does not, with what to do instead. Whoever set one that is refused relies on
 * it for safety; the others are passed over, and named.
 */
export const NOT_HERE: Readonly<Record<string, { readonly why: string; readonly isRefused: boolean }>> = {
  'ServerApp.allow_origin_pat': {
    why: 'patterns may admit unintended pages; list the exact origins in ServerApp.allow_origin',
    isRefused: false
  },
  'ServerApp.allow_remote_access': {
    why: 'the Host header is always checked; name further hosts in ServerApp.local_hostnames',
    isRefused: false
  },
  'ServerApp.allow_unauthenticated_access': {
    why: 'every request needs a token',
    isRefused: false
  },
  'ServerApp.disable_check_xsrf': {
    why: 'there are no cookies, so nothing to forge; leave it out',
    isRefused: false
  },
  'ServerApp.password': {
    why: 'there are no passwords; use IdentityProvider.token, or "tpulab token create NAME" for each client',
    isRefused: false
  },
  'PasswordIdentityProvider.hashed_password': {
    why: 'there are no passwords; use IdentityProvider.token',
    isRefused: false
  },
  'ServerApp.certfile': {
    why: 'the server speaks plain HTTP on this machine; use SSH, or a proxy that has the certificate',
    isRefused: true
  },
  'ServerApp.keyfile': {
    why: 'the server speaks plain HTTP on this machine; use SSH, or a proxy that has the certificate',
    isRefused: true
  },
  'ServerApp.sock_mode': {
    why: 'the socket is always 0600 in a folder of 0700',
    isRefused: false
  },
  'MappingKernelManager.cull_busy': {
    why: 'a kernel that is working is never shut down for being idle; leave it out',
    isRefused: false
  },
  'ServerApp.limit_rate': {
    why: 'output is never dropped for its rate; leave it out',
    isRefused: false
  },
  'ServerApp.iopub_msg_rate_limit': {
    why: 'output is never dropped for its rate; leave it out',
    isRefused: false
  },
  'ServerApp.iopub_data_rate_limit': {
    why: 'output is never dropped for its rate; leave it out',
    isRefused: false
  },
  'ServerApp.port_retries': {
    why: 'a taken port is an error; choose another, or 0 for a free one',
    isRefused: false
  }
};
