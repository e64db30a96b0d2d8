/** Settings that Jupyter has and the bridge on purpose does not, with what to do instead. */
export const NOT_HERE: Readonly<Record<string, string>> = {
  'ServerApp.allow_origin_pat':
    'patterns let in pages that nobody had in mind; list the exact origins in ServerApp.allow_origin',
  'ServerApp.allow_remote_access':
    'the Host header is always checked; name further hosts in ServerApp.local_hostnames',
  'ServerApp.allow_unauthenticated_access': 'every request needs a token',
  'ServerApp.disable_check_xsrf': 'there are no cookies, so nothing to forge; leave it out',
  'ServerApp.password':
    'there are no passwords; use IdentityProvider.token, or "tpulab token create NAME" for each client',
  'PasswordIdentityProvider.hashed_password': 'there are no passwords; use IdentityProvider.token',
  'ServerApp.certfile':
    'the bridge speaks plain HTTP on this machine; use SSH, or a proxy that has the certificate',
  'ServerApp.keyfile':
    'the bridge speaks plain HTTP on this machine; use SSH, or a proxy that has the certificate',
  'ServerApp.sock_mode': 'the socket is always 0600 in a folder of 0700',
  'MappingKernelManager.cull_busy':
    'a kernel that is working is never shut down for being idle; leave it out',
  'ServerApp.limit_rate': 'output is never dropped for its rate; leave it out',
  'ServerApp.iopub_msg_rate_limit': 'output is never dropped for its rate; leave it out',
  'ServerApp.iopub_data_rate_limit': 'output is never dropped for its rate; leave it out',
  'ServerApp.port_retries': 'a taken port is an error; choose another, or 0 for a free one'
};
