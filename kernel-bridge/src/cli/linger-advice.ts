/** What `tpulab status` says about kernels after their user has logged out. */

/** `lingering` is null where systemd does not run: there is nothing to advise then. */
export function lingerAdvice(lingering: boolean | null): readonly string[] {
  return lingering === false
    ? [
        'Kernels may end when you log out of this machine. After "loginctl enable-linger", new kernels keep running.'
      ]
    : [];
}
