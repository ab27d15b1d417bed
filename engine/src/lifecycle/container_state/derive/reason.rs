//! Why starts fail or are held back.

use crate::lifecycle::word::words;

words! {
    /// Why a start failed or is held back (L-CSTATE-9).
    enum StartErrorReason {
        /// The image could not be pulled.
        ErrImagePull = "ErrImagePull",
        /// The next pull is held back.
        ImagePullBackOff = "ImagePullBackOff",
        /// The image could not be inspected.
        ImageInspectError = "ImageInspectError",
        /// The image is not present and may not be pulled.
        ErrImageNeverPull = "ErrImageNeverPull",
        /// The image's name cannot be parsed.
        InvalidImageName = "InvalidImageName",
        /// A reference in the container's configuration cannot be resolved.
        CreateContainerConfigError = "CreateContainerConfigError",
        /// The node agent's hook before creation failed.
        PreCreateHookError = "PreCreateHookError",
        /// The runtime did not create the container.
        CreateContainerError = "CreateContainerError",
        /// The node agent's hook before the start failed.
        PreStartHookError = "PreStartHookError",
        /// The container's hook after the start failed, and the container was killed (L-CSTATE-4).
        PostStartHookError = "PostStartHookError",
        /// The runtime did not start the container.
        RunContainerError = "RunContainerError",
        /// The next start is held back.
        CrashLoopBackOff = "CrashLoopBackOff",
        /// There is no sandbox to start the container in.
        CreatePodSandboxError = "CreatePodSandboxError",
    }
}
