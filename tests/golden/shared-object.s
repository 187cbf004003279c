golden_call:
    push rbx
    mov rax,rdi
    mov rcx,QWORD PTR [golden_shared::site::_::__RINGTRACE_GATE]
    test rcx,rcx
    jne .L1
.L0:
    inc rax
    pop rbx
    ret
.L1:
    mov rbx,rax
    mov rdi,rax
    call golden_shared::site::_::<impl golden_shared::site::request>::__emit
    mov rax,rbx
    jmp .L0
    call QWORD PTR [_DYNAMIC]
golden_fire:
    push rbx
    mov rax,rdi
    mov rcx,QWORD PTR [golden_shared::site::_::__RINGTRACE_GATE]
    test rcx,rcx
    jne .L1
.L0:
    inc rax
    pop rbx
    ret
.L1:
    mov rbx,rax
    mov rdi,rax
    call golden_shared::site::costly
    mov rdi,rax
    call golden_shared::site::_::<impl golden_shared::site::request>::__emit
    mov rax,rbx
    jmp .L0
    call QWORD PTR [_DYNAMIC]
