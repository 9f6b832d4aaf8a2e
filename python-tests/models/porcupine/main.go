// Judges a history of locks with fencing tokens: is it linearizable? It reads the history and prints one line:
//
//	NAME WORKER DOES TOKEN FROM TO     a line of the history; times are nanoseconds of one clock, TO 0: never answered
//	ok OPERATIONS | wrong OPERATIONS NAME... | unknown OPERATIONS
//
// What a worker does:
//
//	acquire    it was granted the lock with this token
//	check      it was told that it holds the lock with this token
//	release    it released this token, and was told so
//	end        it may have lost or released this token at any time from FROM on
//
// The model: a lock is free or held with a token. A grant needs a free lock and a token above all tokens before.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

const patience = 5 * time.Minute

type step struct {
	name, does string
	token      int64
}

type lock struct {
	held, highest int64 // the token of the holder, 0: it is free; the highest token ever
}

func next(state, input, _ any) (bool, any) {
	now, is := state.(lock), input.(step)
	mine := now.held == is.token
	switch is.does {
	case "acquire":
		return now.held == 0 && is.token > now.highest, lock{is.token, is.token}
	case "check":
		return mine, now
	case "release":
		return mine, lock{0, now.highest}
	}
	if mine {
		now.held = 0
	}
	return true, now // end
}

func names(history []porcupine.Operation) map[string][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, operation := range history {
		name := operation.Input.(step).name
		parts[name] = append(parts[name], operation)
	}
	return parts
}

func read() (history []porcupine.Operation) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var is step
		var worker int
		var from, to int64
		if _, err := fmt.Sscan(lines.Text(), &is.name, &worker, &is.does, &is.token, &from, &to); err != nil || is.token <= 0 {
			fmt.Fprintf(os.Stderr, "no line of a history: %q\n", lines.Text())
			os.Exit(2)
		}
		if to == 0 {
			to = math.MaxInt64
		}
		history = append(history, porcupine.Operation{ClientId: worker, Input: is, Call: from, Return: to})
	}
	return history
}

func main() {
	model := porcupine.Model{Init: func() any { return lock{} }, Step: next}
	history := read()
	verdict, wrong := "ok", []string{}
	for name, part := range names(history) {
		switch porcupine.CheckOperationsTimeout(model, part, patience) {
		case porcupine.Illegal:
			verdict, wrong = "wrong", append(wrong, name)
		case porcupine.Unknown:
			if verdict == "ok" {
				verdict = "unknown"
			}
		}
	}
	sort.Strings(wrong)
	fmt.Print(verdict, " ", len(history))
	for _, name := range wrong {
		fmt.Print(" ", name)
	}
	fmt.Println()
}
