package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/valkey-io/valkey-go"
)

const (
	scriptRunsPerRound = 2000
	scriptRounds       = 3
)

// measureScriptMicros returns the mean time, in microseconds, that the store takes to run the
// account script. The messages of four edges about one key are sent back to back, because any
// script that runs after a pause takes several times as long. The lowest mean of a few rounds
// counts, because the machine may be busy.
func (s *storeProcess) measureScriptMicros(ctx context.Context) (least float64, err error) {
	source, err := accountScript(ctx)
	if err != nil {
		return 0, err
	}
	c, err := valkey.NewClient(valkey.ClientOption{
		InitAddress:       []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))},
		ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	script, number := valkey.NewLuaScript(source), 0
	for range scriptRounds {
		var all []valkey.LuaExec
		for range scriptRunsPerRound {
			all = append(all, valkey.LuaExec{Keys: []string{"ps:{k:script}"}, Args: accountScriptArgs(number)})
			number++
		}
		if _, err = s.sendCommand("CONFIG RESETSTAT"); err != nil {
			return 0, err
		}
		for _, answer := range script.ExecMulti(ctx, c, all...) {
			list, err := answer.ToArray()
			if err == nil && len(list) < 3 {
				err = errors.New("a later message was there first")
			}
			if err != nil {
				return 0, errors.New("the script of accounts: " + err.Error())
			}
		}
		each, err := s.meanScriptMicros()
		if err != nil {
			return 0, err
		}
		if least == 0 || each < least {
			least = each
		}
	}
	return least, nil
}

// accountScript reads the script from the module's source.
func accountScript(ctx context.Context) (string, error) {
	dir, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "penstock/proxy/fleet").Output()
	if err != nil {
		return "", errors.New("go list penstock/proxy/fleet: " + err.Error())
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "account.lua"))
	return string(source), err
}

// accountScriptArgs returns the arguments of a message, as account.lua describes them. The edge
// reports that it has used what its previous message requested.
func accountScriptArgs(number int) []string {
	used := number / edgeCount
	args := []string{"edge" + strconv.Itoa(number%edgeCount), strconv.Itoa(1 + number), "9000", ""}
	for _, each := range []int{1, 600} { // requests and tokens
		args = append(args, "1", "1000000000000", strconv.Itoa(used*each), strconv.Itoa(max(0, used-1)*each), "0", "0",
			strconv.Itoa(15*each))
	}
	return append(args, "0", "0", "0", "0", "0", "0", "0") // no slots
}

// meanScriptMicros returns the mean run time of all scripts since the statistics were reset.
func (s *storeProcess) meanScriptMicros() (each float64, err error) {
	text, err := s.sendCommand("INFO commandstats")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(text, "cmdstat_evalsha:")
	_, rest, _ = strings.Cut(rest, "usec_per_call=")
	rest, _, _ = strings.Cut(rest, ",")
	_, err = fmt.Sscan(rest, &each)
	return each, err
}
