package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// yesHelp is the help of the flag -yes.
const yesHelp = "do it without a question"

// answers is where questions are answered from; nil: from standard input, where it is a terminal. Only tests set it.
var answers io.Reader

var (
	errUnasked  = errors.New("nothing was changed; add -yes to do it")
	errDeclined = errors.New("nothing was changed")
)

// agree asks whether to do what the command has printed, unless yes has already said so. The error says that nothing was
// changed: there is no terminal to ask on, or the answer is no.
func (t terminal) agree(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	in := answers
	if in == nil {
		if !isTerminal(os.Stdin) {
			return errUnasked
		}
		in = os.Stdin
	}
	fmt.Fprintf(t.err, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // the read has no end of its own, and the process ends soon
		line, _ := bufio.NewReader(in).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
	case <-ctx.Done():
		fmt.Fprintln(t.err)
	}
	return errDeclined
}
