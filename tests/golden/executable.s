golden_call:
    push rbx
    mov rax,rdi
    mov rcx,QWORD PTR [golden_executable::site::_::__RINGTRACE_GATE]
    test rcx,rcx
    jne .L1
.L0:
    inc rax
    pop rbx
    ret
.L1:
    mov rbx,rax
    mov rdi,rax
    call golden_executable::site::_::<impl golden_executable::site::request>::__emit
    mov rax,rbx
    jmp .L0
    call QWORD PTR [_DYNAMIC]
golden_fire:
    push rbx
    mov rax,rdi
    mov rcx,QWORD PTR [golden_executable::site::_::__RINGTRACE_GATE]
    test rcx,rcx
    jne .L1
.L0:
    inc rax
    pop rbx
    ret
.L1:
    mov rbx,rax
    mov rdi,rax
    call golden_executable::site::costly
    mov rdi,rax
    call golden_executable::site::_::<impl golden_executable::site::request>::__emit
    mov rax,rbx
    jmp .L0
    call QWORD PTR [_DYNAMIC]
