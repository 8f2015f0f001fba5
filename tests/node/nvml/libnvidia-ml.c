/* A stand-in for NVIDIA's libnvidia-ml.so.1, for machines without a GPU.
 *
 * Written from NVIDIA's NVML manual and nvml.h, and compared with what an H100 answered under driver
 * 580 (tests/node/data/nvml). What each GPU says stands in the file $DLQUEUE_FAKE_NVML, read anew at every call, one GPU a line:
 *
 *     uuid minor pci util mem_util mem_bytes power_mw energy_mj mig state sm_active pid mem sm pid mem sm
 *
 * `state` is ok, lost (falls off the bus), hang (a call never returns), old (has no energy, no GPM),
 * metered (its energy grows by its power).
 * Both pids may be 0: no such process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15, MAX = 16 };

typedef struct {
    char uuid[96], pci[32], state[16];
    unsigned minor, util, mem_util, power, mig, pid[2], sm[2];
    unsigned long long mem, energy, proc_mem[2];
    double sm_active;
} Gpu;

static Gpu gpus[MAX];
static unsigned places[MAX]; /* handles: a GPU keeps its handle whatever the file says now */
static char known[MAX][96];

static unsigned load(void) {
    FILE *file = fopen(getenv("DLQUEUE_FAKE_NVML"), "r");
    unsigned count = 0;
    while (file && count < MAX) {
        Gpu *g = &gpus[count];
        int n = fscanf(file, "%95s %u %31s %u %u %llu %u %llu %u %15s %lf %u %llu %u %u %llu %u",
                       g->uuid, &g->minor, g->pci, &g->util, &g->mem_util, &g->mem, &g->power,
                       &g->energy, &g->mig, g->state, &g->sm_active, &g->pid[0], &g->proc_mem[0],
                       &g->sm[0], &g->pid[1], &g->proc_mem[1], &g->sm[1]);
        if (n != 17) break;
        count++;
    }
    if (file) fclose(file);
    return count;
}

static int of(unsigned *handle, Gpu **out) {
    unsigned count = load(), i;
    for (i = 0; i < count; i++)
        if (!strcmp(gpus[i].uuid, known[handle - places])) {
            *out = &gpus[i];
            while (!strcmp(gpus[i].state, "hang")) sleep(1);
            return strcmp(gpus[i].state, "lost") ? OK : LOST;
        }
    return LOST;
}
#define GPU(handle) Gpu *g; int r = of(handle, &g); if (r) return r

static int handle_of(const char *uuid, unsigned **out) {
    unsigned i;
    for (i = 0; i < MAX && known[i][0] && strcmp(known[i], uuid); i++) {}
    strcpy(known[i], uuid);
    *out = &places[i];
    return OK;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "an error"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = load(); return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, unsigned **out) {
    if (index >= load()) return INVALID_ARGUMENT;
    return handle_of(gpus[index].uuid, out);
}
int nvmlDeviceGetHandleByUUID(const char *uuid, unsigned **out) {
    unsigned count = load(), i;
    for (i = 0; i < count; i++)
        if (!strcmp(gpus[i].uuid, uuid)) return handle_of(uuid, out);
    return NOT_FOUND;
}
int nvmlDeviceGetUUID(unsigned *h, char *out, unsigned size) {
    GPU(h); snprintf(out, size, "%s", g->uuid); return OK;
}
int nvmlDeviceGetName(unsigned *h, char *out, unsigned size) {
    GPU(h); snprintf(out, size, "Stand-in"); return OK;
}
int nvmlDeviceGetMinorNumber(unsigned *h, unsigned *out) { GPU(h); *out = g->minor; return OK; }
int nvmlDeviceGetPciInfo_v3(unsigned *h, char *out) { /* busId follows 36 bytes of numbers */
    GPU(h); snprintf(out + 36, 32, "%s", g->pci); return OK;
}
int nvmlDeviceGetUtilizationRates(unsigned *h, unsigned out[2]) {
    GPU(h); out[0] = g->util; out[1] = g->mem_util; return OK;
}
int nvmlDeviceGetMemoryInfo(unsigned *h, unsigned long long out[3]) {
    GPU(h); out[0] = 80ull << 30; out[1] = out[0] - g->mem; out[2] = g->mem; return OK;
}
int nvmlDeviceGetPowerUsage(unsigned *h, unsigned *out) { GPU(h); *out = g->power; return OK; }
int nvmlDeviceGetTotalEnergyConsumption(unsigned *h, unsigned long long *out) {
    GPU(h); if (!strcmp(g->state, "old")) return NOT_SUPPORTED;
    *out = g->energy;
    if (!strcmp(g->state, "metered")) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        *out += (now.tv_sec + now.tv_nsec * 1e-9) * g->power;
    }
    return OK;
}
int nvmlDeviceGetClockInfo(unsigned *h, int which, unsigned *out) {
    GPU(h); *out = which == 1 ? 1400 : 2600; return OK;
}
int nvmlDeviceGetMigMode(unsigned *h, unsigned *now, unsigned *later) {
    GPU(h); *now = *later = g->mig; return OK;
}

typedef struct {
    unsigned id, scope; long long time, latency; unsigned type; int result;
    union { double d; unsigned long long u; } value;
} Field;
int nvmlDeviceGetFieldValues(unsigned *h, int count, Field *fields) {
    int i; GPU(h);
    for (i = 0; i < count; i++) {
        fields[i].result = fields[i].id == 138 || fields[i].id == 139 ? NOT_SUPPORTED : OK;
        fields[i].type = fields[i].id == 197 || fields[i].id == 198 ? 1 : 3; /* 32 bits, 64 bits */
        fields[i].value.u = fields[i].type == 1 ? (unsigned)(g->energy * 1000) : g->energy * 1000;
    }
    return OK;
}

int nvmlDeviceGetPcieThroughput(unsigned *h, int which, unsigned *out) {
    GPU(h); *out = which ? 2000 : 1000; return OK;
}

typedef struct { unsigned pid; unsigned long long mem; unsigned gi, ci; } Process;
int nvmlDeviceGetComputeRunningProcesses_v3(unsigned *h, unsigned *count, Process *out) {
    unsigned i, n = 0, room = *count; GPU(h);
    for (i = 0; i < 2; i++) n += g->pid[i] != 0;
    *count = n;
    if (room < n) return TOO_SMALL;
    for (i = 0, n = 0; i < 2; i++)
        if (g->pid[i]) { out[n].pid = g->pid[i]; out[n].mem = g->proc_mem[i]; out[n].gi = out[n].ci = ~0u; n++; }
    return OK;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(unsigned *h, unsigned *count, Process *out) {
    GPU(h); (void)out; *count = 0; return OK;
}
typedef struct { unsigned pid; unsigned long long time; unsigned sm, mem, enc, dec; } Sample;
int nvmlDeviceGetProcessUtilization(unsigned *h, Sample *out, unsigned *count, unsigned long long since) {
    unsigned i, n = 0; static unsigned long long clock = 1000; GPU(h);
    if (!out) { *count = 2; return TOO_SMALL; }
    for (i = 0; i < 2; i++)
        if (g->pid[i]) {
            memset(&out[n], 0, sizeof(Sample));
            out[n].pid = g->pid[i]; out[n].sm = g->sm[i]; out[n].time = ++clock + since; n++;
        }
    *count = n;
    return n ? OK : NOT_FOUND;
}

typedef struct { unsigned version, supported; } Support;
int nvmlGpmQueryDeviceSupport(unsigned *h, Support *out) {
    GPU(h); out->supported = strcmp(g->state, "old") != 0; return OK;
}
int nvmlGpmSampleAlloc(void **out) { *out = malloc(8); return OK; }
int nvmlGpmSampleFree(void *sample) { free(sample); return OK; }
int nvmlGpmSampleGet(unsigned *h, double *sample) { GPU(h); *sample = g->sm_active; return OK; }
typedef struct { unsigned id; int result; double value; const char *name, *longer, *unit; } Metric;
typedef struct { unsigned version, count; double *before, *now; Metric metrics[1]; } Metrics;
int nvmlGpmMetricsGet(Metrics *m) {
    unsigned i;
    for (i = 0; i < m->count; i++) { m->metrics[i].value = *m->now / (i + 1); m->metrics[i].result = OK; }
    return OK;
}
