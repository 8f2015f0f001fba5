/* A stand-in for NVIDIA's libcuda.so.1: a context that finds the stand-in of MPS by its pipe folder.
 *
 * Written from NVIDIA's manuals of the driver's interface and of MPS, and never compared with
 * hardware. It has 132 multiprocessors, of which a client's limit or partition leaves it a part.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { OK = 0, OUT_OF_MEMORY = 2, NO_DEVICE = 100, ILLEGAL_ADDRESS = 700, FAILED = 719, NOT_READY = 810 };
static int daemon_socket = -1;
static int broken;
static unsigned long long taken;

int cuInit(unsigned flags) { (void)flags; return getenv("FAKE_CUDA_NONE") ? NO_DEVICE : OK; }
int cuDeviceGet(int *out, int index) { *out = index; return OK; }

int cuDeviceGetAttribute(int *out, int what, int device) {
    const char *percent = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    const char *partition = getenv("CUDA_MPS_SM_PARTITION");
    (void)what; (void)device;
    *out = 132;
    if (partition && strrchr(partition, 'D')) *out = 8 * atoi(strrchr(partition, 'D') + 1);
    else if (percent && daemon_socket >= 0) *out = (int)(132 * atof(percent) / 100);
    return OK;
}

int cuCtxCreate_v2(void **out, unsigned flags, int device) {
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[64] = "";
    (void)flags; (void)device;
    *out = &broken;
    if (!folder) return OK;
    snprintf(address.sun_path, sizeof address.sun_path, "%s/control", folder);
    daemon_socket = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(daemon_socket, (struct sockaddr *)&address, sizeof address)) { /* no daemon: none */
        close(daemon_socket);
        daemon_socket = -1;
        return OK;
    }
    dprintf(daemon_socket, "client %d\n", getpid());
    if (read(daemon_socket, text, sizeof text - 1) <= 0 || strncmp(text, "ok", 2)) return NOT_READY;
    return OK;
}

int cuMemGetInfo_v2(size_t *free_, size_t *total) { *free_ = *total = 80ull << 30; return OK; }

int cuMemAlloc_v2(unsigned long long *out, size_t size) {
    const char *limit = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"); /* 0=<n>M */
    unsigned long long most = limit && daemon_socket >= 0 ? strtoull(limit + 2, 0, 10) << 20 : 80ull << 30;
    if (taken + size > most) return OUT_OF_MEMORY;
    taken += size;
    *out = 1;
    return OK;
}

int cuMemsetD8_v2(unsigned long long memory, unsigned char value, size_t size) {
    (void)memory; (void)value; (void)size; return OK;
}
int cuModuleLoadData(void **out, const void *image) { (void)image; *out = &broken; return OK; }
int cuModuleGetFunction(void **out, void *module, const char *name) {
    (void)module; (void)name; *out = &broken; return OK;
}
int cuLaunchKernel(void *kernel, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f,
                   unsigned shared, void *stream, void **arguments, void **extra) {
    (void)kernel; (void)a; (void)b; (void)c; (void)d; (void)e; (void)f;
    (void)shared; (void)stream; (void)arguments; (void)extra;
    broken = 1;
    if (daemon_socket >= 0) dprintf(daemon_socket, "fault\n");
    return OK;
}

/* Its own fault, or a server that ended. */
int cuCtxSynchronize(void) {
    char byte;
    if (broken) { /* until the server has ended */
        if (daemon_socket >= 0) (void)!recv(daemon_socket, &byte, 1, 0);
        return ILLEGAL_ADDRESS;
    }
    if (daemon_socket >= 0 && recv(daemon_socket, &byte, 1, MSG_DONTWAIT) == 0) return FAILED;
    return OK;
}
