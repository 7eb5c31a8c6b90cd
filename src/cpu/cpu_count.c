// How many processors this process may use. A container on a 64-core machine with a quota of 2 gets 2 threads, not 64.
#include "cpu/pool.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#if defined(__linux__)
#include <sched.h>
#include <unistd.h>

#define PATH_BYTES 1024

static int affinity_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    return (int)sysconf(_SC_NPROCESSORS_ONLN); // more than 1024 processors do not fit the set
}

static bool read_numbers(const char *path, const char *format, long long *a, long long *b, int wanted)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    const int found = fscanf(file, format, a, b);
    fclose(file);
    return found == wanted;
}

static int limit(int count, long long quota, long long period)
{
    if (quota <= 0 || period <= 0) return count;
    const long long allowed = (quota + period - 1) / period;
    return allowed < count ? (int)allowed : count;
}

// The smallest quota of the group and the groups above it. version 2: "200000 100000" or "max 100000" in cpu.max.
static int limit_by_group(int count, const char *root, char *group, int version)
{
    for (;;) {
        char path[2 * PATH_BYTES];
        long long quota = 0, period = 0;
        if (version == 2) {
            snprintf(path, sizeof path, "%s%s/cpu.max", root, group);
            if (read_numbers(path, "%lld %lld", &quota, &period, 2)) count = limit(count, quota, period);
        } else {
            snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", root, group);
            bool found = read_numbers(path, "%lld", &quota, NULL, 1);
            snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", root, group);
            found = found && read_numbers(path, "%lld", &period, NULL, 1);
            if (found) count = limit(count, quota, period);
        }
        char *slash = strrchr(group, '/');
        if (slash == NULL) return count;
        *slash = '\0';
    }
}

// Lines of /proc/self/cgroup: "0::/path" for version 2, "4:cpu,cpuacct:/path" for version 1.
static int limit_by_quota(int count)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL) return count;
    char line[PATH_BYTES];
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (group == NULL) continue;
        *group++ = '\0';
        controllers++;
        if (controllers[0] == '\0') {
            count = limit_by_group(count, "/sys/fs/cgroup", group, 2);
        } else if (strcmp(controllers, "cpu") == 0 || strncmp(controllers, "cpu,", 4) == 0 ||
                   strstr(controllers, ",cpu,") != NULL) {
            count = limit_by_group(count, "/sys/fs/cgroup/cpu", group, 1);
        }
    }
    fclose(file);
    return count;
}

int nbx_cpu_count(void)
{
    const int count = limit_by_quota(affinity_count());
    return count < 1 ? 1 : count;
}

#else
#include <unistd.h>

int nbx_cpu_count(void)
{
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : (int)count;
}

#endif
