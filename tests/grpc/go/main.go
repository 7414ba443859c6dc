// Command go calls examples/grpc with the gRPC of Go: calls of all four kinds, a deadline, a cancellation, an unknown
// method, many calls at once, and many that are cancelled. Usage: go run . ADDRESS. It fails unless all do what they
// should.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// A Number is encoded by hand, so that no generated code is needed.
type number struct{ value uint64 }

type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) ([]byte, error) {
	return append([]byte{0x08}, binary.AppendUvarint(nil, v.(*number).value)...), nil
}

func (codec) Unmarshal(data []byte, v any) error {
	if len(data) > 1 && data[0] == 0x08 {
		v.(*number).value, _ = binary.Uvarint(data[1:])
	}
	return nil
}

func main() {
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{})))
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	square := func(value uint64) uint64 {
		answer := new(number)
		check(connection.Invoke(ctx, "/Numbers/Square", &number{value}, answer))
		return answer.value
	}
	open := func(ctx context.Context, name string) grpc.ClientStream {
		stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/Numbers/"+name)
		check(err)
		return stream
	}
	receive := func(stream grpc.ClientStream) (uint64, error) {
		answer := new(number)
		err := stream.RecvMsg(answer)
		return answer.value, err
	}
	expect(square(1234) == 1234*1234, "Square")

	stream := open(ctx, "Count")
	check(stream.SendMsg(&number{1000}))
	check(stream.CloseSend())
	for i := uint64(1); i <= 1000; i++ {
		value, err := receive(stream)
		check(err)
		expect(value == i, "Count")
	}
	_, err = receive(stream)
	expect(err == io.EOF, "the end of Count")

	stream = open(ctx, "Sum")
	for i := uint64(0); i <= 1000; i++ {
		check(stream.SendMsg(&number{i}))
	}
	check(stream.CloseSend())
	value, err := receive(stream)
	check(err)
	expect(value == 500500, "Sum")

	// Each question waits for the answer to the last one.
	stream = open(ctx, "Squares")
	for i := uint64(0); i < 100; i++ {
		check(stream.SendMsg(&number{i}))
		value, err := receive(stream)
		check(err)
		expect(value == i*i, "Squares")
	}
	check(stream.CloseSend())
	_, err = receive(stream)
	expect(err == io.EOF, "the end of Squares")

	err = connection.Invoke(ctx, "/Numbers/Nothing", &number{1}, new(number))
	expect(status.Code(err) == codes.Unimplemented, "an unknown method")

	short, cancelShort := context.WithTimeout(ctx, 200*time.Millisecond)
	stream = open(short, "Count")
	check(stream.SendMsg(&number{100_000}))
	for err = nil; err == nil; _, err = receive(stream) {
	}
	cancelShort()
	expect(status.Code(err) == codes.DeadlineExceeded, "a deadline")

	leaving, leave := context.WithCancel(ctx)
	stream = open(leaving, "Count")
	check(stream.SendMsg(&number{100_000}))
	_, err = receive(stream)
	check(err)
	leave()
	for err = nil; err == nil; _, err = receive(stream) {
	}
	expect(status.Code(err) == codes.Canceled, "a cancellation")

	var all sync.WaitGroup
	for i := uint64(0); i < 1000; i++ {
		all.Add(1)
		go func() { defer all.Done(); expect(square(i) == i*i, "many calls") }()
	}
	all.Wait()

	// Each cancellation is a reset of a stream. The connection must outlive them.
	for i := 0; i < 500; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			leaving, leave := context.WithCancel(ctx)
			stream := open(leaving, "Count")
			check(stream.SendMsg(&number{100_000}))
			_, err := receive(stream)
			check(err)
			leave()
		}()
	}
	all.Wait()
	expect(square(7) == 49, "a call after many cancellations")
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func expect(holds bool, what string) {
	if !holds {
		check(fmt.Errorf("wrong: %s", what))
	}
}
