package localpg

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processes are the living processes of the cluster with that name. Each has it in
// its command line: the postmaster as a setting, the others in their title. The
// command line can be read by everybody, unlike the working directory, for which
// root in a container lacks the right. A zombie has none.
func processes(name string) []int {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil
	}
	var pids []int
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte(name)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// pidInfo is what Postgres writes about itself into its pid file.
type pidInfo struct {
	pid, port int
	ready     bool
}

// readPidFile reads the pid file of a cluster; an absent or unfinished one is empty.
func readPidFile(cluster string) pidInfo {
	text, err := os.ReadFile(filepath.Join(cluster, pidFile))
	if err != nil {
		return pidInfo{}
	}
	// pid, folder, start time, port, socket folder, address, shared memory, status
	lines := strings.Split(string(text), "\n")
	if len(lines) < 8 {
		return pidInfo{pid: number(lines[0])}
	}
	return pidInfo{pid: number(lines[0]), port: number(lines[3]), ready: strings.TrimSpace(lines[7]) == "ready"}
}

func number(s string) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		return 0
	}
	return n
}
